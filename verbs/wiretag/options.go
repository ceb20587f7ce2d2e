package wiretag

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-rdma/sluice/telemetry"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
)

// scheme is that of the devices whose names take the options.
const scheme = "ibv:"

// Open opens a device as verbs.Open does. After a question mark, the name of a
// libibverbs device may have options of this package besides its own. Open then
// wraps the device, with the interface of its port 1:
//
//	ibv:rxe0?telemetry=poseidon
//	ibv:mlx5_0?telemetry=csig-wide&collect=probes&every=200us
//
// telemetry is the form of tags by its name (telemetry.DelayForm), tagtype their
// EtherType, base and step the scale of a form that has one; collect is a Mode, every
// Config.ProbeInterval, maxage Config.MaxAge, and sport Config.SourcePort. All but
// telemetry have defaults.
func Open(name string) (verbs.Device, error) {
	inner, cfg, wanted, err := ParseName(name)
	if err != nil {
		return nil, verbs.Errorf("open", name, verbs.ErrInvalid, "%v", err)
	}
	dev, err := verbs.Open(inner)
	if err != nil || !wanted {
		return dev, err
	}
	d, err := Wrap(dev, "", cfg)
	if err != nil {
		return nil, errors.Join(err, dev.Close())
	}
	return d, nil
}

// own are the options that are not the provider's.
var own = []string{"telemetry", "tagtype", "base", "step", "collect", "every", "maxage", "sport"}

// ParseName takes the options that are this package's out of a device's name, and
// reports whether there are any. The names of other devices than libibverbs' stay as
// they are: their options of that name are their own.
func ParseName(name string) (inner string, cfg Config, wanted bool, err error) {
	if !strings.HasPrefix(name, scheme) {
		return name, Config{}, false, nil
	}
	return parse(name)
}

// ParseInterface takes the options out of the name of a network interface, such as
// eth0?telemetry=csig-wide.
func ParseInterface(name string) (netdev string, cfg Config, wanted bool, err error) {
	netdev, cfg, wanted, err = parse(name)
	if _, rest, more := strings.Cut(netdev, "?"); err == nil && more {
		return "", Config{}, false, fmt.Errorf("unknown option %s, expected %s", rest, strings.Join(own, ", "))
	}
	return netdev, cfg, wanted, err
}

func parse(name string) (inner string, cfg Config, wanted bool, err error) {
	device, query, ok := strings.Cut(name, "?")
	if !ok {
		return name, Config{}, false, nil
	}
	values, err := url.ParseQuery(query)
	if err != nil {
		return "", Config{}, false, fmt.Errorf("options %q: %w; write telemetry=poseidon", query, err)
	}
	get := func(key string) (text string, set bool) {
		v := values[key]
		delete(values, key)
		if len(v) == 0 {
			return "", false
		}
		wanted = true
		return v[len(v)-1], true
	}
	form, set := get("telemetry")
	if !set {
		for _, key := range own {
			if _, set := get(key); set {
				return "", Config{}, false, fmt.Errorf("option %s requires telemetry=%s", key, telemetry.FormNames(telemetry.Form.IsDelay))
			}
		}
		return name, Config{}, false, nil
	}
	var f telemetry.DelayForm
	if err := f.UnmarshalText([]byte(form)); err != nil {
		return "", Config{}, false, fmt.Errorf("option telemetry: %w", err)
	}
	cfg = DefaultConfig(f)
	for _, key := range own[1:] {
		text, set := get(key)
		if !set {
			continue
		}
		if err := cfg.set(key, text); err != nil {
			return "", Config{}, false, fmt.Errorf("option %s: %w", key, err)
		}
	}
	if err := cfg.Validate(); err != nil {
		return "", Config{}, false, err
	}
	if len(values) > 0 {
		device += "?" + values.Encode()
	}
	return device, cfg, true, nil
}

func (c *Config) set(key, text string) (err error) {
	var n uint64
	switch key {
	case "tagtype":
		n, err = strconv.ParseUint(text, 0, 16)
		c.Format.EtherType = uint16(n)
	case "base", "step":
		if !c.Format.Form.Scaled() {
			return fmt.Errorf("it requires telemetry=%s", telemetry.FormNames(telemetry.Form.IsScaled))
		}
		var v units.Time
		err = v.UnmarshalText([]byte(text))
		if key == "base" {
			c.Format.Base = v
		} else {
			c.Format.Step = v
		}
	case "collect":
		i := slices.Index(modeNames[:], text)
		if i < 0 {
			return fmt.Errorf("unknown mode %q, expected %s", text, strings.Join(modeNames[:], ", "))
		}
		c.Mode = Mode(i)
	case "every":
		c.ProbeInterval, err = time.ParseDuration(text)
	case "maxage":
		c.MaxAge, err = time.ParseDuration(text)
	case "sport":
		n, err = strconv.ParseUint(text, 0, 16)
		c.SourcePort = uint16(n)
	}
	return err
}
