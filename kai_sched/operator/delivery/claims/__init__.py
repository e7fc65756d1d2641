"""Claims for devices around a bind (API 7.6): they are written before the first pod of a group is bound.

``binder`` has them allocated and reserved in the API server, ``reservations`` knows who has which claim meanwhile and
releases those of binds that failed, ``leftovers`` those that an earlier leader reserved.
"""
