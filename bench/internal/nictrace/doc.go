// Package nictrace follows requests through NICs of the model by the spans that the NICs
// report: as trace events, as a value change dump, and as single requests that represent
// all.
package nictrace
