package wiretag

//go:generate go run ./internal/bpfgen
