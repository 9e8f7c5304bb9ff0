"""Identification: the subject that a presented token stands for."""
