// Package version says which Sluice a program has in it: the one place that decides
// what `sluice version`, reports, JSON and metrics call it. It knows of nothing but
// the build.
package version
