"""The live scheduler, `kai-sched run`: the loop, the handlers, what the API server and the kubelet ask of it."""
