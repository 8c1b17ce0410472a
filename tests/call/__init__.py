"""The path of a later call: guards, dispatch, figures."""
