# sbx-journald
