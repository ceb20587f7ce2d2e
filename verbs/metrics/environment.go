package metrics

import (
	"fmt"
	"os"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
)

// FromEnvironment publishes the devices that are added to the collector it
// returns, in Directory, if the variable SLUICE_METRICS is true. If it is unset or
// false the collector serves nobody. stop is never nil.
func FromEnvironment() (devices *Devices, stop func() error, err error) {
	devices = NewDevices()
	none := func() error { return nil }
	value := os.Getenv("SLUICE_METRICS")
	if value == "" {
		return devices, none, nil
	}
	asked, err := strconv.ParseBool(value)
	if err != nil {
		return devices, none, fmt.Errorf("SLUICE_METRICS=%s: set it to 1 or 0", value)
	}
	if !asked {
		return devices, none, nil
	}
	reg := prometheus.NewRegistry()
	reg.MustRegister(devices)
	stop, err = Publish(reg, Directory())
	if err != nil {
		return devices, none, err
	}
	return devices, stop, nil
}
