// P4c runs Sluice's P4 programs through the compilers that a directory has, of
// p4test, p4c-bm2-ss (BMv2) and p4c-barefoot (Tofino), and prints what each said of each
// program and chip and, from p4c-barefoot's own logs, what the programs take of the
// chips: the tables of docs/telemetry.md.
//
//	go run ./tools/p4c DIR
//
// DIR is where the compilers were built or installed; they and their P4 includes are
// looked for in all of it.
package main
