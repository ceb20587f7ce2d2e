// Package rxetest holds Sluice against the Linux kernel's soft-RoCE driver and
// the tools that everyone uses with it: rping of rdmacm-utils, and perftest. The
// kernel is a guest's, made and booted by internal/rxeguest, so the tests run on
// machines whose own kernel knows no RDMA.
//
// There is nothing here but tests: make test-rxe, or
//
//	go test -v ./rxetest
//
// names each pair of programs that met. Under -short one guest boots, for some pairs of
// each kind; else all run, for many minutes. They skip, and say why, where no guest can
// run; with SLUICE_RXE_REQUIRED=1 that is a failure. A first run downloads some 130 MB.
// docs/soft-roce-in-ci.md has the rest.
package rxetest
