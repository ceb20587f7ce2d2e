package nicmodel

import (
	"errors"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-rdma/sluice/nicmodel/internal/config"
	"github.com/sluice-rdma/sluice/nicmodel/internal/pcie"
	"github.com/sluice-rdma/sluice/units"
)

// Rates of lanes after line coding, as the specification's tables have them.
func TestParseLink(t *testing.T) {
	for text, want := range map[string]units.Rate{
		"gen1x1": 2 * units.Gbps, "gen2x4": 16 * units.Gbps, "gen3x8": 63_015_384_615, "gen4x16": 252_061_538_461, "gen5x16": 504_123_076_923, "gen6x16": 944 * units.Gbps,
	} {
		if got, err := pcie.ParseLink(text); err != nil || got != want {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "gen", "gen3", "3x8", "gen0x8", "gen7x8", "gen3x3", "gen3x-8", "genx8", "gen3x8x2"} {
		if got, err := pcie.ParseLink(text); err == nil {
			t.Errorf("%q: %v", text, got)
		}
	}
}

// Presets are in bounds. A parameter of any size that is not is refused by the name
// that it has in scenarios, before anything overflows.
func TestBounds(t *testing.T) {
	for _, name := range config.Presets() {
		c := preset(t, name)
		if err := c.Validate(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	base := preset(t, "connectib")
	base.PCIe.IOMMU = pcie.IOMMUConfig{Entries: 64, PageSize: 4096}
	base.PCIe.HostCache = pcie.HostCacheConfig{Size: 1 << 20, Writes: 1 << 17}
	base.Compression = config.Compression{MaxNum: 8, Timeout: units.Microsecond}
	tried := 0
	var walk func(path string, index []int, typ reflect.Type)
	walk = func(path string, index []int, typ reflect.Type) {
		for i := range typ.NumField() {
			f := typ.Field(i)
			at, name := append(slices.Clone(index), i), strings.TrimPrefix(path+"."+f.Tag.Get("yaml"), ".")
			var wrong []func(v reflect.Value)
			switch f.Type.Kind() {
			case reflect.Struct:
				walk(name, at, f.Type)
			case reflect.Int, reflect.Int64:
				wrong = append(wrong, func(v reflect.Value) { v.SetInt(math.MaxInt64) }, func(v reflect.Value) { v.SetInt(math.MinInt64) })
			case reflect.Uint64:
				wrong = append(wrong, func(v reflect.Value) { v.SetUint(math.MaxInt64) }, func(v reflect.Value) { v.SetUint(math.MaxUint64) })
			}
			for _, spoil := range wrong {
				c := base
				spoil(reflect.ValueOf(&c).Elem().FieldByIndex(at))
				tried++
				err := c.Validate()
				if bad := (*config.FieldError)(nil); !errors.As(err, &bad) || bad.Key != name {
					t.Errorf("%s: error %v", name, err)
				}
			}
		}
	}
	walk("", nil, reflect.TypeFor[config.Config]())
	// Each of several is named.
	c := base
	c.PCIe.Tags, c.PCIe.PostedCredits, c.MaxSGE = 1, -1, 0
	if err := c.Validate(); err == nil || err.Error() != "nic: pcie.posted_credits is -1: choose 1 to 65536, or 0 for no limit\nnic: max_sge is 0: choose 1 to 256" {
		t.Errorf("two parameters: error %v", err)
	}
	if tried < 100 {
		t.Errorf("only %d were tried", tried)
	}
}
