"""The process of ``kai-sched run``: cycles, what comes from the API server, and what goes to it. No code here."""
