# sbx-broker
