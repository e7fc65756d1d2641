"""All that is said to the API server: requests, lists and watches, the lease, the effects of a cycle. No code here."""
