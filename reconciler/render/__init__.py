"""Plan, status and all other documents as text or JSON: the only place that builds sentences from them.

Nothing is gathered here: a program imports the documents that it shows, and no others.
"""
