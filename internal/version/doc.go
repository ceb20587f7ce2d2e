// Package version identifies the Sluice that a program contains: it alone decides
// what `sluice version`, reports, JSON and metrics call it. It depends on nothing
// but the build.
package version
