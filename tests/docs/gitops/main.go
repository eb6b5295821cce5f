// Says what GitOps tools make of objects. Reads a JSON document from standard input, with a Lua script as Argo CD runs it
// and a list of objects, and prints for each object what that script and kstatus say.
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"

	lua "github.com/yuin/gopher-lua"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/cli-utils/pkg/kstatus/status"
)

type verdict struct {
	ArgoCD  string `json:"argocd"`
	Kstatus string `json:"kstatus"`
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	input, err := io.ReadAll(os.Stdin)
	if err != nil {
		return err
	}
	// Decodes whole numbers as int64, as clients of Kubernetes do.
	var asked map[string]interface{}
	if err := utiljson.Unmarshal(input, &asked); err != nil {
		return fmt.Errorf("failed to read the question: %w", err)
	}
	script, objects := asked["lua"].(string), asked["objects"].([]interface{})
	verdicts := make([]verdict, 0, len(objects))
	for _, object := range objects {
		object := object.(map[string]interface{})
		argocd, err := health(script, object)
		if err != nil {
			return fmt.Errorf("failed to run the script: %w", err)
		}
		result, err := status.Compute(&unstructured.Unstructured{Object: object})
		if err != nil {
			return fmt.Errorf("failed to compute the status: %w", err)
		}
		verdicts = append(verdicts, verdict{argocd, result.Status.String()})
	}
	return json.NewEncoder(os.Stdout).Encode(verdicts)
}

// Runs a health script as Argo CD does: the object is the global `obj`, there are only the libraries that cannot reach out
// of the script, and it returns a table with a status and a message. Returns "status: message".
func health(script string, object map[string]interface{}) (string, error) {
	state := lua.NewState(lua.Options{SkipOpenLibs: true})
	defer state.Close()
	for name, open := range map[string]lua.LGFunction{
		lua.LoadLibName:   lua.OpenPackage,
		lua.BaseLibName:   lua.OpenBase,
		lua.TabLibName:    lua.OpenTable,
		lua.StringLibName: lua.OpenString,
	} {
		if err := state.CallByParam(lua.P{Fn: state.NewFunction(open), Protect: true}, lua.LString(name)); err != nil {
			return "", err
		}
	}
	state.SetGlobal("obj", toLua(state, object))
	if err := state.DoString(script); err != nil {
		return "", err
	}
	returned, isTable := state.Get(-1).(*lua.LTable)
	if !isTable {
		return "", fmt.Errorf("it returned a %s", state.Get(-1).Type())
	}
	return lua.LVAsString(returned.RawGetString("status")) + ": " + lua.LVAsString(returned.RawGetString("message")), nil
}

func toLua(state *lua.LState, value interface{}) lua.LValue {
	switch value := value.(type) {
	case bool:
		return lua.LBool(value)
	case int64:
		return lua.LNumber(value)
	case float64:
		return lua.LNumber(value)
	case string:
		return lua.LString(value)
	case []interface{}:
		table := state.NewTable()
		for _, item := range value {
			table.Append(toLua(state, item))
		}
		return table
	case map[string]interface{}:
		table := state.NewTable()
		for key, item := range value {
			table.RawSetString(key, toLua(state, item))
		}
		return table
	default:
		return lua.LNil
	}
}
