// Package run compiles checked P4_16 programs and holds the state of the switches that run them.
//
// Compile turns a program once into closures over flat memory: every variable has a fixed
// place among a machine's words, calls are put in place at each call (P4 has no recursion),
// values of up to 64 bits are worked on in registers and wider ones word by word. A packet
// costs no allocation and no map. Names are resolved only by the control plane.
//
// The package reads no clock: times come with packets (Intrinsic). It knows nothing of files or
// of the program's text; packages p4 and stf do.
//
// What the language leaves undefined is defined here: variables without a value are zero, headers begin
// invalid with zero fields, an index beyond a stack reads zero and writes nothing, division by zero is zero, and a
// register's index beyond its end reads zero and writes nothing.
package run
