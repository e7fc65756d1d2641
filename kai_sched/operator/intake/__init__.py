"""From the API server into the store.

``sources`` says what is watched. ``event_sink`` puts each event into the store (``object_head`` reads who it is about,
``paced_sink`` how often large objects are read); an object that raises costs itself, and the node of a pod that cannot
be read takes no other pods. ``status_observer`` keeps what statuses show, ``live_settings`` which settings are in
force. Every event is a state, so any may be missed: reflectors list again after a gap.
"""
