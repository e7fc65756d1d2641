"""Why a workload waits, and the smallest change of each kind that starts it: ``explanation.explain``.

``search`` tries changes by whole simulations, remembers what they came to, and finds the first of a row of them that
starts the group, within a bound of work. Who can make a change has a module: ``user_changes`` (fewer GPUs or pods, a
smaller minimum, fewer demands, another class or queue), ``queue_changes`` (quota, limit, weight, at each level of the
tree), ``node_changes`` (more nodes, or nodes back), ``pool_changes`` (another node pool); ``waiting`` says whose end is
enough. Each yields what ``suggestion`` defines: a change that starts the group, or how far one was looked for.
``constraints`` takes away what may block the group, and names what is necessary. ``explanation`` puts it together, with
what each change costs others.
"""
