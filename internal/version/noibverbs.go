//go:build !ibverbs

package version

const ibverbs = false
