package wirestamp

//go:generate go run ../../tools/bpfgen stamper bpf/wirestamp.c event
