package storm
import ("github.com/sluice-rdma/sluice/sim/fault";"testing";"fmt";"os";"strconv")
func TestDbg(t *testing.T) {
	c := Default(); c.Seed, _ = strconv.ParseUint(os.Getenv("FROM"),10,64)
	if s := os.Getenv("PROVIDER"); s != "" { c.Provider = s }
	c.Shim = os.Getenv("SHIM")
	r, _ := Run(c)
	fmt.Printf("%+v\n", drawWeather(c.Seed))
	if r.Failure == "" { return }
	l, _ := Shrink(c, r, 300)
	debugOn = true; c.Faults = l.Faults; if c.Faults == nil { c.Faults = fault.Schedule{} }; Run(c)
	fmt.Println(l.Failure); fmt.Println(l.Stack); fmt.Println(l.Faults)
}
