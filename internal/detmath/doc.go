// Package detmath has an exponential and a logarithm that give the same bits on
// every platform Go supports. The standard library's take different paths on
// different processors, and the compiler may fuse a multiplication with an
// addition where the machine has such an instruction; a simulation whose rates
// depend on them would then differ by machine. Here every product is rounded
// before it is added, which the language guarantees to prevent fusing.
//
// Both are accurate to within two units in the last place over the range that
// rate engines use; they are not meant for extremes of the number range.
package detmath
