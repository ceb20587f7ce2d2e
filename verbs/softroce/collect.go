package softroce

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/sluice-rdma/sluice/telemetry"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/softroce/internal/endpoint"
)

// collect is what a device's packets collect on their way.
type collect struct {
	ein   bool
	tags  bool
	int   bool
	delay telemetry.DelayFormat
	hops  telemetry.INTFormat
}

// reports is what a device's options say of what its packets collect.
type reports struct {
	Kind    string     `yaml:"telemetry"`           // one of telemetry.Forms
	TagType uint16     `yaml:"tagtype" eg:"0x88b5"` // EtherType of a tag
	Base    units.Time `yaml:"base"`                // scale of a tag's values, where its form has one
	Step    units.Time `yaml:"step"`
	Port    uint16     `yaml:"intport"`  // UDP port of packets with INT
	Rates   rateCodes  `yaml:"intrates"` // in addition to those that have codes
}

// codes is how many rates a format may have.
const codes = len(telemetry.INTFormat{}.Rates)

// rateCodes is rates by their codes, written CODE:RATE,...
type rateCodes [codes]units.Rate

// UnmarshalText implements encoding.TextUnmarshaler.
func (r *rateCodes) UnmarshalText(b []byte) error {
	for field := range strings.SplitSeq(string(b), ",") {
		code, rate, ok := strings.Cut(field, ":")
		n, bad := strconv.ParseUint(code, 10, 8)
		if !ok || bad != nil || n >= uint64(codes) {
			return fmt.Errorf("%q, expected CODE:RATE with a code from 0 to %d, such as 13:200Mbps", field, codes-1)
		}
		if err := r[n].UnmarshalText([]byte(rate)); err != nil {
			return err
		}
	}
	return nil
}

// goesWith has the forms that an option beside telemetry= is for.
var goesWith = map[string]func(telemetry.Form) bool{
	"tagtype":  telemetry.Form.IsDelay,
	"base":     telemetry.Form.IsScaled,
	"step":     telemetry.Form.IsScaled,
	"intport":  telemetry.Form.IsPerHop,
	"intrates": telemetry.Form.IsPerHop,
}

// collect makes the formats of what the options say, or an error. given reports whether there is
// an option.
func (said *reports) collect(given func(key string) bool, m mode) (c collect, err error) {
	var form telemetry.Form
	var unknown error
	if said.Kind != "" {
		form, unknown = telemetry.FormNamed(said.Kind)
	}
	for _, key := range slices.Sorted(maps.Keys(goesWith)) {
		if given(key) && (said.Kind == "" || !goesWith[key](form)) {
			return c, fmt.Errorf("option %s requires telemetry=%s", key, telemetry.FormNames(goesWith[key]))
		}
	}
	switch {
	case unknown != nil:
		return c, fmt.Errorf("option telemetry: %w", unknown)
	case said.Kind == "":
		return c, nil
	case form.IsPerHop():
		c.int = true
		c.hops = telemetry.DefaultINTFormat(form.INT)
		if said.Port != 0 {
			c.hops.Port = said.Port
		}
		for code, r := range said.Rates {
			if r > 0 {
				c.hops.Rates[code] = r
			}
		}
		if err := c.hops.Validate(); err != nil {
			return c, err
		}
	case form.IsDelay():
		c.tags, c.delay = true, telemetry.DefaultDelayFormat(form.Delay)
		if said.TagType != 0 {
			c.delay.EtherType = said.TagType
		}
		if said.Step != 0 {
			c.delay.Step = said.Step
		}
		c.delay.Base = said.Base
		if err := c.delay.Validate(); err != nil {
			return c, err
		}
	default:
		c.ein = true
		return c, nil
	}
	if m != modePacket {
		return c, errors.New("option telemetry: tags and INT require mode=packet: the sockets of other modes get neither")
	}
	return c, nil
}

// core is the endpoint's part of the configuration.
func (c *collect) core() (out endpoint.Collect) {
	if c.tags {
		out.Delay = &c.delay
	}
	if c.int {
		out.INT = &c.hops
	}
	return out
}

// bytes is what telemetry adds to a packet at most.
func (c *collect) bytes() int {
	switch {
	case c.tags:
		return 2 * c.delay.Form.Bytes()
	case c.int:
		return c.hops.Form.Bytes(c.hops.Form.MaxHops())
	}
	return 0
}

// kinds is what connections report: the options say what the network does.
func (c *collect) kinds() verbs.TelemetryKinds {
	k := verbs.ReportsECN
	switch {
	case c.ein:
		k |= verbs.ReportsEIN
	case c.tags:
		k |= verbs.ReportsMaxDelay
	case c.int:
		k |= verbs.ReportsPath
	}
	return k
}
