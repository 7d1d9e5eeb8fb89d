"""Configuration: the NATS configuration language, and the options it is bound to.

`binding.load_options` is the way in for a server, `language.parse_text` for whoever wants the tree.
"""
