package wiretag

//go:generate go run ../../tools/bpfgen tagger bpf/wiretag.c event conn probe
