"""Replays schedules without computing, and refuses the first instruction that is wrong."""
