"""The whole chain over data that grows: what a nightly job calls.

duplicates   which documents hold what none before them holds
splits       which split a document is in, by a hash of its group
"""
