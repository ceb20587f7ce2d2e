package rxeguest

import (
	"fmt"
	"io"
)

// File types of a cpio header's mode, as in stat(2).
const (
	cpioDir     = 0o040000
	cpioRegular = 0o100000
	cpioSymlink = 0o120000
)

// cpioWriter writes an archive in the "newc" format, which the kernel unpacks as
// its initramfs (Documentation/driver-api/early-userspace/buffer-format.rst).
// Owners are root and times are zero, so the same calls write the same bytes. A
// directory must be written before what it holds. The first error sticks.
type cpioWriter struct {
	w   io.Writer
	ino uint32
	n   int64
	err error
}

func (c *cpioWriter) dir(name string) { c.entry(name, cpioDir|0o755, nil) }

func (c *cpioWriter) file(name string, perm uint32, data []byte) {
	c.entry(name, cpioRegular|perm, data)
}

func (c *cpioWriter) symlink(name, target string) {
	c.entry(name, cpioSymlink|0o777, []byte(target))
}

// close ends the archive and returns the first error. Archives may follow one
// another in a file: the kernel unpacks each, later entries over earlier ones.
func (c *cpioWriter) close() error {
	c.ino = 0
	c.entry("TRAILER!!!", 0, nil)
	c.pad(512)
	return c.err
}

func (c *cpioWriter) entry(name string, mode uint32, data []byte) {
	links := 1
	if mode&cpioDir == cpioDir {
		links = 2
	}
	ino := c.ino
	c.ino++
	// magic, inode, mode, uid, gid, links, mtime, size, device (2), device of a
	// node (2), length of the name with its NUL, checksum (unused)
	c.write(fmt.Appendf(nil, "070701%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X",
		ino, mode, 0, 0, links, 0, len(data), 0, 0, 0, 0, len(name)+1, 0))
	c.write(append([]byte(name), 0))
	c.pad(4)
	c.write(data)
	c.pad(4)
}

func (c *cpioWriter) pad(to int64) {
	if odd := c.n % to; odd != 0 {
		c.write(make([]byte, to-odd))
	}
}

func (c *cpioWriter) write(b []byte) {
	if c.err != nil {
		return
	}
	n, err := c.w.Write(b)
	c.n += int64(n)
	c.err = err
}
