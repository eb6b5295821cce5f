//! The flags of a link as keys of a file: each with the field that it sets, and the rule of its value.

use manifests::link::SETTINGS;

use crate::{
    link::flags::{LinkArgs, LinkProfile, gateway_address},
    proxy_url::proxy_url,
    typed,
};

/// Sets what a key of a fleet's file stands for, from the text of its value; items of a list are separated by commas. The
/// error is the rule that the value breaks.
pub fn set(args: &mut LinkArgs, key: &str, text: &str) -> Result<(), String> {
    match key {
        "namespace" => args.namespace = typed::namespace(text)?,
        "serviceAccountNamespace" => {
            args.service_account_namespace = Some(typed::namespace(text)?);
        }
        "apiServerAddress" => args.api_server_address = Some(typed::server_address(text)?),
        "apiServerThroughGateway" => args.api_server_through_gateway = switch(text)?,
        "discoveryThroughGateway" => args.discovery_through_gateway = switch(text)?,
        "proxyUrl" => args.proxy_url = Some(proxy_url(text)?),
        "insecureTargetTls" => args.insecure_target_tls = switch(text)?,
        "gateway" => args.gateway = switch(text)?,
        "gatewayName" => args.gateway_name = typed::object_name(text)?,
        "gatewayNamespace" => args.gateway_namespace = typed::namespace(text)?,
        "gatewayAddresses" => {
            let addresses = text.split(',').map(gateway_address);
            args.gateway_addresses = addresses.collect::<Result<_, _>>()?;
        }
        "profile" => args.profile = LinkProfile::parse(text)?,
        "gatewayPort" => {
            let port = text.parse();
            args.gateway_port = port.map_err(|_| "must be a port, or 0 for that of its Service")?;
        }
        _ => {
            let setting = SETTINGS.iter().find(|setting| setting.key == key);
            let setting = setting.ok_or("is no setting of a link")?;
            (setting.parse)(&mut args.options, text)?;
        }
    }
    Ok(())
}

fn switch(text: &str) -> Result<bool, String> {
    let parsed = text.parse();
    parsed.map_err(|_| "must be true or false".to_owned())
}
