package main

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"hash/fnv"
)

// A slot of the table, little-endian: what the atomics lock (8 bytes), then a
// record: checksum of all that follows (4), length of the key (2), of the value
// (4), the key and the value.
const (
	slots     = 1024
	slotBytes = 40 << 10
	lockBytes = 8
	headBytes = 10
	probes    = 8 // slots in which a key may be
	mostKey   = 256
	mostValue = slotBytes - lockBytes - headBytes - mostKey
)

var (
	errFull   = errors.New("the table is full around the key's place")
	errAbsent = errors.New("no such key")
	errTorn   = errors.New("the record was being written")
)

// place returns the i-th slot in which a key may be.
func place(key string, i int) int {
	h := fnv.New32a()
	_, _ = h.Write([]byte(key)) // it never fails
	return (int(h.Sum32()%slots) + i) % slots
}

// encode writes a record and returns its length.
func encode(b []byte, key string, value []byte) (int, error) {
	switch {
	case key == "" || len(key) > mostKey:
		return 0, errors.New("a key has 1 to 256 bytes")
	case len(value) > mostValue:
		return 0, errors.New("the value is too long")
	}
	binary.LittleEndian.PutUint16(b[4:], uint16(len(key)))
	binary.LittleEndian.PutUint32(b[6:], uint32(len(value)))
	n := headBytes + copy(b[headBytes:], key)
	n += copy(b[n:], value)
	binary.LittleEndian.PutUint32(b, crc32.ChecksumIEEE(b[4:n]))
	return n, nil
}

// decode reads the record of a slot. An empty slot has neither key nor error.
func decode(b []byte) (key string, value []byte, err error) {
	k, v := int(binary.LittleEndian.Uint16(b[4:])), int(binary.LittleEndian.Uint32(b[6:]))
	sum := binary.LittleEndian.Uint32(b)
	if sum == 0 && k == 0 && v == 0 {
		return "", nil, nil
	}
	n := headBytes + k + v
	if k > mostKey || v > mostValue || sum != crc32.ChecksumIEEE(b[4:n]) {
		return "", nil, errTorn
	}
	return string(b[headBytes : headBytes+k]), b[headBytes+k : n], nil
}
