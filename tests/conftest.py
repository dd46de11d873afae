"""Fixtures that every test may use: one PostgreSQL and one running service per session, a database per need."""

import hypothesis

# Two cores shared with servers: how long one example takes says nothing here.
hypothesis.settings.register_profile("suite", deadline=None)
hypothesis.settings.load_profile("suite")
