package p4

import (
	"fmt"
	"testing"
)

// Hashes of TNA by a CRCPolynomial, against the check values of the catalogue of CRCs (of "123456789"). Its algorithms whose bytes
// come in as the remainder goes out are those that a CRCPolynomial describes: reversed is of both.
func TestRulesOfPolynomials(t *testing.T) {
	for _, c := range []struct {
		name     string
		width    int
		poly     string
		reversed bool
		init     string
		xor      string
		check    uint64
	}{
		{"CRC-3/GSM", 3, "0x3", false, "0", "0x7", 0x4},
		{"CRC-3/ROHC", 3, "0x3", true, "0x7", "0", 0x6},
		{"CRC-4/G-704", 4, "0x3", true, "0", "0", 0x7},
		{"CRC-5/EPC-C1G2", 5, "0x09", false, "0x09", "0", 0x00},
		{"CRC-5/G-704", 5, "0x15", true, "0", "0", 0x07},
		{"CRC-5/USB", 5, "0x05", true, "0x1f", "0x1f", 0x19},
		{"CRC-6/CDMA2000-A", 6, "0x27", false, "0x3f", "0", 0x0d},
		{"CRC-6/G-704", 6, "0x03", true, "0", "0", 0x06},
		{"CRC-7/MMC", 7, "0x09", false, "0", "0", 0x75},
		{"CRC-7/ROHC", 7, "0x4f", true, "0x7f", "0", 0x53},
		{"CRC-8/SMBUS", 8, "0x07", false, "0", "0", 0xf4},
		{"CRC-8/CDMA2000", 8, "0x9b", false, "0xff", "0", 0xda},
		{"CRC-8/DARC", 8, "0x39", true, "0", "0", 0x15},
		{"CRC-8/DVB-S2", 8, "0xd5", false, "0", "0", 0xbc},
		{"CRC-8/I-CODE", 8, "0x1d", false, "0xfd", "0", 0x7e},
		{"CRC-8/I-432-1", 8, "0x07", false, "0", "0x55", 0xa1},
		{"CRC-8/MAXIM-DOW", 8, "0x31", true, "0", "0", 0xa1},
		{"CRC-8/ROHC", 8, "0x07", true, "0xff", "0", 0xd0},
		{"CRC-8/WCDMA", 8, "0x9b", true, "0", "0", 0x25},
		{"CRC-10/ATM", 10, "0x233", false, "0", "0", 0x199},
		{"CRC-11/FLEXRAY", 11, "0x385", false, "0x01a", "0", 0x5a3},
		{"CRC-12/DECT", 12, "0x80f", false, "0", "0", 0xf5b},
		{"CRC-14/DARC", 14, "0x0805", true, "0", "0", 0x082d},
		{"CRC-15/CAN", 15, "0x4599", false, "0", "0", 0x059e},
		{"CRC-16/ARC", 16, "0x8005", true, "0", "0", 0xbb3d},
		{"CRC-16/DDS-110", 16, "0x8005", false, "0x800d", "0", 0x9ecf},
		{"CRC-16/DNP", 16, "0x3d65", true, "0", "0xffff", 0xea82},
		{"CRC-16/EN-13757", 16, "0x3d65", false, "0", "0xffff", 0xc2b7},
		{"CRC-16/GENIBUS", 16, "0x1021", false, "0xffff", "0xffff", 0xd64e},
		{"CRC-16/IBM-3740", 16, "0x1021", false, "0xffff", "0", 0x29b1},
		{"CRC-16/IBM-SDLC", 16, "0x1021", true, "0xffff", "0xffff", 0x906e},
		{"CRC-16/KERMIT", 16, "0x1021", true, "0", "0", 0x2189},
		{"CRC-16/MAXIM-DOW", 16, "0x8005", true, "0", "0xffff", 0x44c2},
		{"CRC-16/MCRF4XX", 16, "0x1021", true, "0xffff", "0", 0x6f91},
		{"CRC-16/MODBUS", 16, "0x8005", true, "0xffff", "0", 0x4b37},
		{"CRC-16/T10-DIF", 16, "0x8bb7", false, "0", "0", 0xd0db},
		{"CRC-16/UMTS", 16, "0x8005", false, "0", "0", 0xfee8},
		{"CRC-16/USB", 16, "0x8005", true, "0xffff", "0xffff", 0xb4c8},
		{"CRC-16/XMODEM", 16, "0x1021", false, "0", "0", 0x31c3},
		{"CRC-24/OPENPGP", 24, "0x864cfb", false, "0xb704ce", "0", 0x21cf02},
		{"CRC-24/FLEXRAY-A", 24, "0x5d6dcb", false, "0xfedcba", "0", 0x7979bd},
		{"CRC-24/BLE", 24, "0x00065b", true, "0x555555", "0", 0xc25a56},
		{"CRC-31/PHILIPS", 31, "0x04c11db7", false, "0x7fffffff", "0x7fffffff", 0x0ce9e46c},
		{"CRC-32/ISO-HDLC", 32, "0x04c11db7", true, "0xffffffff", "0xffffffff", 0xcbf43926},
		{"CRC-32/AIXM", 32, "0x814141ab", false, "0", "0", 0x3010bf7f},
		{"CRC-32/BASE91-D", 32, "0xa833982b", true, "0xffffffff", "0xffffffff", 0x87315576},
		{"CRC-32/BZIP2", 32, "0x04c11db7", false, "0xffffffff", "0xffffffff", 0xfc891918},
		{"CRC-32/CKSUM", 32, "0x04c11db7", false, "0", "0xffffffff", 0x765e7680},
		{"CRC-32/ISCSI", 32, "0x1edc6f41", true, "0xffffffff", "0xffffffff", 0xe3069283},
		{"CRC-32/JAMCRC", 32, "0x04c11db7", true, "0xffffffff", "0", 0x340bc6d9},
		{"CRC-32/MPEG-2", 32, "0x04c11db7", false, "0xffffffff", "0", 0x0376e6e7},
		{"CRC-32/XFER", 32, "0x000000af", false, "0", "0", 0xbd0be338},
		{"CRC-40/GSM", 40, "0x0004820009", false, "0", "0xffffffffff", 0xd4164fc646},
		{"CRC-64/ECMA-182", 64, "0x42f0e1eba9ea3693", false, "0", "0", 0x6c40df5f0b497347},
		{"CRC-64/WE", 64, "0x42f0e1eba9ea3693", false, "0xffffffffffffffff", "0xffffffffffffffff", 0x62ec59e3f1a4f00a},
		{"CRC-64/XZ", 64, "0x42f0e1eba9ea3693", true, "0xffffffffffffffff", "0xffffffffffffffff", 0x995dc9bbdf1939fa},
	} {
		t.Run(c.name, func(t *testing.T) {
			locals := fmt.Sprintf("CRCPolynomial<bit<%d>>(%s, %v, false, false, %s, %s) p; Hash<bit<%[1]d>>(HashAlgorithm_t.CUSTOM, p) h;", c.width, c.poly, c.reversed, c.init, c.xor)
			const body = "bit<64> v = (bit<64>)h.get({ hdr.h.s }); hdr.h.a = v[63:56]; hdr.h.b = v[55:48]; hdr.h.c = v[47:32]; hdr.h.d = v[31:0];"
			exchange(t, loadText(t, tnaText("", tnaStart, locals, body)).New(), fmt.Sprintf("00 00 0000 00000000 -> %016x", c.check))
		})
	}
}

// The algorithms of TNA that have a name, of what is hashed and of how much of it goes where.
func TestRulesOfTNAAlgorithms(t *testing.T) {
	for _, c := range []struct {
		rule, algorithm string
		width           int
		of              string
		want            uint64
	}{
		{"CRC8", "CRC8", 8, "{ hdr.h.s }", 0xf4},
		{"CRC16", "CRC16", 16, "{ hdr.h.s }", 0xbb3d},
		{"CRC32", "CRC32", 32, "{ hdr.h.s }", 0xcbf43926},
		{"CRC64", "CRC64", 64, "{ hdr.h.s }", 0x6c40df5f0b497347},
		{"a CRC's low bits", "CRC32", 12, "{ hdr.h.s }", 0x926},
		{"a CRC of fewer bits than the result", "CRC16", 32, "{ hdr.h.s }", 0xbb3d},
		{"XOR8 of bytes", "XOR8", 8, "{ hdr.h.s }", 0x31},
		{"XOR8 of a last byte in part", "XOR8", 8, "{ 8w0x12, 4w0x3 }", 0x22},
		{"XOR16 of words", "XOR16", 16, "{ 16w0x1234, 16w0x0f0f, 8w0x80 }", 0x9d3b},
		{"XOR32 of words", "XOR32", 32, "{ 32w0x12345678, 32w0x0f0f0f0f, 16w0x8000 }", 0x9d3b5977},
		{"IDENTITY of one field", "IDENTITY", 16, "{ 16w0x1234 }", 0x1234},
		{"IDENTITY has the last bits", "IDENTITY", 16, "{ 8w0x12, 16w0x3456 }", 0x3456},
		{"IDENTITY of fewer bits", "IDENTITY", 16, "{ 4w0xa, 3w5 }", 0x55},
		{"IDENTITY of more than a word", "IDENTITY", 64, "{ hdr.h.s }", 0x3233343536373839},
	} {
		t.Run(c.rule, func(t *testing.T) {
			locals := fmt.Sprintf("Hash<bit<%d>>(HashAlgorithm_t.%s) h;", c.width, c.algorithm)
			body := "bit<64> v = (bit<64>)h.get(" + c.of + "); hdr.h.a = v[63:56]; hdr.h.b = v[55:48]; hdr.h.c = v[47:32]; hdr.h.d = v[31:0];"
			exchange(t, loadText(t, tnaText("", tnaStart, locals, body)).New(), fmt.Sprintf("00 00 0000 00000000 -> %016x", c.want))
		})
	}
}
