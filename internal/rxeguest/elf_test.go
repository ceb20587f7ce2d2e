package rxeguest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"testing"
)

func TestLoadOrder(t *testing.T) {
	graph := map[string][]string{
		"rdma_rxe": {"ib_core", "udp_tunnel"}, "rdma_ucm": {"rdma_cm", "ib_core"}, "rdma_cm": {"ib_core"},
		"ib_core": nil, "udp_tunnel": nil, "a": {"b"}, "b": {"a"},
	}
	depends := func(m string) ([]string, error) {
		d, ok := graph[m]
		if !ok {
			return nil, errors.New("absent")
		}
		return d, nil
	}
	for _, c := range []struct {
		wanted, order, err string
	}{
		{"rdma_rxe rdma_ucm", "ib_core udp_tunnel rdma_rxe rdma_cm rdma_ucm", ""},
		{"rdma_ucm rdma_rxe rdma_ucm", "ib_core rdma_cm rdma_ucm udp_tunnel rdma_rxe", ""},
		{"", "", ""},
		{"mlx5", "", "module mlx5: absent"},
		{"a", "", "module a depends on itself"},
	} {
		order, err := loadOrder(strings.Fields(c.wanted), depends)
		if got := strings.Join(order, " "); got != c.order {
			t.Errorf("loadOrder(%s) = %s, want %s", c.wanted, got, c.order)
		}
		if (err == nil) != (c.err == "") || err != nil && err.Error() != c.err {
			t.Errorf("loadOrder(%s): error %v, want %q", c.wanted, err, c.err)
		}
	}
}

func TestModuleDepends(t *testing.T) {
	for _, c := range []struct {
		info string
		want []string
	}{
		{"license=GPL\x00depends=ib_core,udp_tunnel\x00name=rdma_rxe\x00", []string{"ib_core", "udp_tunnel"}},
		{"depends=\x00name=crc32_generic\x00", nil},
		{"softdepends=x\x00", nil},
	} {
		got, err := moduleDepends(bytes.NewReader(elfWith(".modinfo", c.info)))
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("moduleDepends(%q) = %q, %v, want %q", c.info, got, err, c.want)
		}
	}
	if _, err := moduleDepends(bytes.NewReader(elfWith(".data", "depends=x\x00"))); err == nil {
		t.Error("a file without .modinfo passes as a module")
	}
	if _, err := moduleDepends(strings.NewReader("no ELF at all")); err == nil {
		t.Error("text passes as a module")
	}
}

// elfWith returns a relocatable ELF file with one section.
func elfWith(section, data string) []byte {
	names := "\x00" + section + "\x00.shstrtab\x00"
	var b bytes.Buffer
	put := func(values ...any) {
		for _, v := range values {
			_ = binary.Write(&b, binary.LittleEndian, v) // to a buffer
		}
	}
	const header, sectionHeader = 64, 64
	dataAt := uint64(header)
	namesAt := dataAt + uint64(len(data))
	sectionsAt := namesAt + uint64(len(names))
	put([]byte("\x7fELF\x02\x01\x01"), make([]byte, 9), // 64 bits, little-endian
		uint16(1), uint16(62), uint32(1), uint64(0), uint64(0), sectionsAt, // relocatable, x86-64
		uint32(0), uint16(header), uint16(0), uint16(0), uint16(sectionHeader), uint16(3), uint16(2))
	put([]byte(data), []byte(names))
	put(make([]byte, sectionHeader))
	put(uint32(1), uint32(1), uint64(0), uint64(0), dataAt, uint64(len(data)), uint32(0), uint32(0), uint64(1), uint64(0))
	put(uint32(len(section)+2), uint32(3), uint64(0), uint64(0), namesAt, uint64(len(names)), uint32(0), uint32(0), uint64(1), uint64(0))
	return b.Bytes()
}
