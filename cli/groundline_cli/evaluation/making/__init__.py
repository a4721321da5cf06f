"""Sets in the making: drafts of questions, which a person accepts one by one."""
