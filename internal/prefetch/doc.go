// Package prefetch asks the processor to load memory into its cache, for walks over
// more memory than a cache holds in an order that is known a little ahead. It
// changes nothing but speed, and does nothing on processors that it does not know.
package prefetch
