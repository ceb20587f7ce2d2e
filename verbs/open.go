package verbs

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// Provider opens the devices of one scheme.
type Provider interface {
	// Open opens the device of that name, which comes without the scheme.
	Open(name string) (Device, error)
	// Devices lists the names that Open takes, with the scheme.
	Devices() ([]string, error)
}

var providers struct {
	sync.RWMutex
	by map[string]Provider
}

// Register makes a provider available to Open under a scheme. It panics if the
// scheme is empty or taken.
func Register(scheme string, p Provider) {
	providers.Lock()
	defer providers.Unlock()
	if _, taken := providers.by[scheme]; taken || scheme == "" || p == nil {
		panic(fmt.Sprintf("verbs: scheme %q is empty or taken, or its provider is nil", scheme))
	}
	if providers.by == nil {
		providers.by = map[string]Provider{}
	}
	providers.by[scheme] = p
}

// Providers lists the registered schemes.
func Providers() []string {
	providers.RLock()
	defer providers.RUnlock()
	return slices.Sorted(maps.Keys(providers.by))
}

// Open opens a device by "scheme:name", such as "sim:lab/h0".
func Open(name string) (Device, error) {
	scheme, rest, ok := strings.Cut(name, ":")
	known := Providers()
	if !ok {
		return nil, Errorf("open", name, ErrNoDevice, "write PROVIDER:DEVICE, with one of the providers %s", strings.Join(known, ", "))
	}
	providers.RLock()
	p := providers.by[scheme]
	providers.RUnlock()
	if p == nil {
		return nil, Errorf("open", name, ErrNoDevice, "no provider %q is linked in, only: %s", scheme, strings.Join(known, ", "))
	}
	return p.Open(rest)
}

// Devices lists what Open can open, for all providers that can list their devices.
func Devices() ([]string, error) {
	var names []string
	var errs []error
	for _, scheme := range Providers() {
		providers.RLock()
		p := providers.by[scheme]
		providers.RUnlock()
		n, err := p.Devices()
		names = append(names, n...)
		errs = append(errs, err)
	}
	return names, errors.Join(errs...)
}

// Run runs applications of dev, each on a goroutine of its own, and returns when
// all have, with their errors joined. On a simulated device they are its actors:
// one runs at a time, in a fixed order, and simulated time passes while all of
// them wait in Poll or Wait.
func Run(dev Device, applications ...func() error) error {
	if r, ok := dev.(Runner); ok {
		return r.Run(applications...)
	}
	errs := make([]error, len(applications))
	var wg sync.WaitGroup
	for i, f := range applications {
		wg.Go(func() { errs[i] = f() })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// Blocking runs f, which waits for something other than dev. Within Run on a
// simulated device every such wait must use it, or simulated time stops for all.
func Blocking(dev Device, f func()) {
	if r, ok := dev.(Runner); ok {
		r.Blocking(f)
		return
	}
	f()
}

// Sleep waits for d of the device's time.
func Sleep(dev Device, d time.Duration) {
	if r, ok := dev.(Runner); ok {
		r.Sleep(d)
		return
	}
	time.Sleep(d)
}

// Bottom returns the device at the bottom of a stack of wrapped devices: the provider's.
func Bottom(dev Device) Device {
	for {
		u, ok := dev.(interface{ Unwrap() Device })
		if !ok {
			return dev
		}
		dev = u.Unwrap()
	}
}

// Simulated reports whether time is simulated on a device. What wraps a device may have the
// methods of Runner where it is not.
func Simulated(dev Device) bool {
	_, ok := Bottom(dev).(Runner)
	return ok
}
