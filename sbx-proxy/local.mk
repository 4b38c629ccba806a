# sbx-proxy
