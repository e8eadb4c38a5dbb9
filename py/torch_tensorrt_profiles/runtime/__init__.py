"""Run time: selecting a profile by name, and what a program's engines hold."""
