"""The page: a cluster in one HTML file that asks nothing of the network, for ``-o html`` and for the operator.

``content`` says what is on it, ``node_map`` who holds which GPU, ``history`` what queues held in the last hour,
``rendering`` makes the file of ``page.html.j2``, ``page.css`` and ``page.js``. Sentences are those of the answers.
"""
