package wirestamp

//go:generate go run ./internal/bpfgen
