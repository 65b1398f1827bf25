"""Tests of mcphub.policy.matchers."""
