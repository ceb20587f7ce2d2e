//go:build ibverbs

package version

const ibverbs = true
