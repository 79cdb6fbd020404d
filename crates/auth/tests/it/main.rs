mod saml;
