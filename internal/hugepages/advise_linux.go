package hugepages

import "syscall"

// madvHugepage is MADV_HUGEPAGE.
const madvHugepage = 14

// advise asks; a system that has none says no, which is as good.
func advise(b []byte) { _ = syscall.Madvise(b, madvHugepage) }
