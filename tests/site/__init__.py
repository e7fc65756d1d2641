"""The documentation site: the order of its pages, the pages that are made from the code, and the check of what was
built. `make site` builds it by docs/conf.py.
"""
