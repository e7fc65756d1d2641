"""How the image is built without a Docker daemon (``build``, with ``tools``), and run as a container runtime would run
it (``container``)."""
