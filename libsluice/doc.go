// Package libsluice is the place of libsluice.so, the C library that paces queue pairs of
// C programs, and of its tests. The library has no Go in it: src/ is written by hand over
// internal/ccore/src, which is generated from Sluice's engines, limiter and segmenter.
// include/sluice.h is what programs see, and preload/ the library that brings programs
// here that know nothing of it. docs/c-api.md and docs/preload.md are for users; src/shim.h
// is where to begin with a change.
package libsluice

//go:generate go test -run ^TestKeys$ -update .
