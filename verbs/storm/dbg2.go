package storm
import ("runtime";"fmt")
func dumpAll() { b := make([]byte, 1<<16); fmt.Println(string(b[:runtime.Stack(b, true)])) }
