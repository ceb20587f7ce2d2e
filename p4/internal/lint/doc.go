// Package lint warns about what the compiler of a Tofino chip is known to refuse in a
// program that is right: actions that take more than a stage, conditions that compute,
// header bytes with too many sources, parsers that are too deep, a stack's next that
// stands for several elements. The rules follow p4c's Tofino back end 9.13.4, which
// moves what a statement computes to where it is used and puts neighbouring statements
// into one action before it looks at the chip's limits.
//
// A program without warnings may still be refused: whether it fits is for the compiler
// to say.
package lint
