module valkey/local/tools/pause

go 1.24.0
